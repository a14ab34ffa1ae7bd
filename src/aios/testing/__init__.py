"""What tests of capabilities, adapters and the house itself share. It is shipped, and nothing in the house imports it."""
