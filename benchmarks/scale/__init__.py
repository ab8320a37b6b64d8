"""``make scale``: ten million items, and ten times the usual messages, worked out from measured times and AWS's quotas.

Nothing here asks AWS. ``inputs.json`` has the times and the quotas, each with where it is from; ``docs/scale.json``
what came of them, and ``docs/scale.md`` and ``docs/queues.md`` show it.
"""
