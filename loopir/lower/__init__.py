"""From a scheduled nest to one that is spelt line by line: `pipeline` is the table of passes, one file each, in order.

What passes share: target (limits), owned (what a thread keeps of local memory), trees (how threads fold), turns.
"""
