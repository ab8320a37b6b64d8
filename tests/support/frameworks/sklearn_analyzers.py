"""Counts the terms of texts by scikit-learn's own analyzers: a line of JSON for each line with options and a text."""

from __future__ import annotations

import json
import sys
from collections import Counter

from sklearn.feature_extraction.text import CountVectorizer

for line in sys.stdin:
    options, text = json.loads(line)
    options["ngram_range"] = tuple(options["ngram_range"])
    analyze = CountVectorizer(**options).build_analyzer()
    print(json.dumps(Counter(analyze(text))), flush=True)
