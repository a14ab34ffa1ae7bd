"""How the protocol looks on the wire: requests, results, events and frames, as values and bytes, without I/O.

One file per namespace of methods (`task.py` holds `aios/task.*`); server, client, documents and tests share its types.
"""
