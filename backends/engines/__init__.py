"""Engines that Flashlane starts and owns: supervised child processes and how each is run."""
