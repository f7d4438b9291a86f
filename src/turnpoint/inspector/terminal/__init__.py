"""The inspector in a terminal. The app needs Textual (``pip install 'turnpoint[inspect]'``); drawing does not."""
