"""What clients ask for: bodies, read as far as Flashlane needs them, and written again for an engine."""
