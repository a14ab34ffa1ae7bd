"""Makes it happen: the only writer and the only clock of the house. Everything here runs on the main loop."""
