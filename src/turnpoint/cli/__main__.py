"""``python -m turnpoint.cli``."""

from turnpoint.cli import main

main()
