"""Kinds of outputs that only some models have. A kind is a module of its name, imported when a model first answers with
one: ``answer`` gives an item's answer, ``shortest`` the characters that it has at least.
"""
