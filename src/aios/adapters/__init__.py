"""Fillings of the seam to what does the work: each module is one way to come by an adapter."""
