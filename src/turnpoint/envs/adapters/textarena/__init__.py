"""TextArena's games: alone, or against an opponent that is scripted, random or a function of yours."""
