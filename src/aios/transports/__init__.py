"""The doors: bytes on one side, the service on the other. One dispatcher, five ways in (protocol.md §2)."""
