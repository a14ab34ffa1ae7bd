"""What callers may ask: one file per namespace of the protocol, one function per method.

Doors and bridges speak with `dispatcher.Service` alone: bytes in, bytes out, and subscriptions to be read.
"""
