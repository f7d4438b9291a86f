"""Repository repair: find and mend a fault in a small repository, judged by its tests inside a sandbox."""
