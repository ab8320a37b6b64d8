"""The kinds of outputs that only some models have, each a module that is imported when a model first answers with it.

Its ``format_answer`` gives an item's answer.
"""
