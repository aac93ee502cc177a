"""The language: the nodes of programs, their text form, and the rules of what is legal.

grammar has the statements, index the integer expressions and conditions, values the scalar expressions; dtypes the
element types; ops the records of operations and instructions. printer and parser/ are the
text form; traverse/ walks and rewrites trees, verify/ checks, layout/ says where elements lie, instr/ matches
instructions. What a program means is in `loopir.interp`.
"""
