"""The single proofs of ``turnpoint.envs.check``: each is a function that raises ``CheckFailed`` or gives a detail."""
