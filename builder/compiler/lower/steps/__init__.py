"""The steps that a program is made of: a module ``<kind>_step`` for each kind.

Such a module declares what the step reads and writes, says what it computes, reads it from XLA's thunk where XLA asks
for it, and prints it as C. It is found by its name: nothing else has to know of it.
"""
