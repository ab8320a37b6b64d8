"""The steps that a program is made of: a module ``<kind>_step`` for each kind.

Such a module declares the step's inputs and outputs, documents what it computes, reads it from XLA's thunk if XLA has
one for it, and prints it as C. It is found by its name, so no other module has to import it.
"""
