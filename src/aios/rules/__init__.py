"""What is true without a clock, a disk or a network: the rules everything else obeys.

Nothing here does I/O, knows what time it is or draws a random number; all of that is handed in.
"""
