"""The language: what a program is, how it is written, what is legal of it, and what it means.

Nodes: grammar, with its indices in index and its values in values; dtypes; ops (what an operation is), instruction.
Text: text prints; parse, parse_expr and parse_buffer read.
Rules: verify and verify_expr, which know where they stand by here.
Meaning: interpret, which compiles to Python (to_python, python) and runs on memory that watches itself (watch), by
threads that meet (spmd), over real numbers or an exact ring (domains), with the caller's sizes (sizes).
Trees: walk, rebuild, substitute, copies, inits; fresh (new names), measure (how large), recursion (how deep), stack
(with what room for it); and what is kept with a node once it is known: kept, holds, spoken, labels.
What compiled code counts in 64 bits: magnitude.
Where elements lie: layouts, packing, shared_memory. Instructions: match (does a nest mean one), issue (one as the
hardware does it), descriptors.
"""
