"""Runs attempts: their code on lanes apart from the main loop, what they say to the engine on it."""
