"""What one would use instead: each runs in `.venv-bench`, with nothing of ours but this package."""
