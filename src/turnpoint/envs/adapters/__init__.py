"""Environments of other libraries: Gymnasium, OpenEnv, skyrl-gym, verifiers, reasoning-gym, TextArena.

Each is a small ``Game`` (``game.py``); what they share (tasks from seeds, a process of their own, checked answers,
recovery) is here. None of these libraries can fork: states come back by verified replay, where the game repeats itself.
"""
