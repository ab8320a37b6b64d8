"""Kinds of outputs that only some models have. A kind is a module of its name, imported when a model first answers with
one: ``format_answer`` gives an item's answer, ``compute_min_length`` the characters that it has at least.
"""
