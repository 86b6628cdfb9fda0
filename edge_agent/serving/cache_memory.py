"""Answers in memory: the least recently used go first when their bytes are over the bound."""

from __future__ import annotations

from collections import OrderedDict
from typing import Optional

from edge_agent.serving.cache_answer import Answer
from edge_agent.serving.cache_key import tag_of


class AnswerMemory:
    """Answers by key."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> Optional[Answer]:
        """The answer, which is the most recently used one now."""
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    def put(self, key: str, answer: Answer) -> None:
        """Keeps an answer, unless it is larger than all that may be kept."""
        self._drop(key)
        if answer.nbytes > self._max_bytes:
            return
        self._answers[key] = answer
        self.nbytes += answer.nbytes
        while self.nbytes > self._max_bytes:
            self._drop(next(iter(self._answers)))

    def forget(self, tag: str) -> None:
        """Drops all answers whose key has this tag."""
        for key in [key for key in self._answers if tag_of(key) == tag]:
            self._drop(key)

    def _drop(self, key: str) -> None:
        answer = self._answers.pop(key, None)
        if answer is not None:
            self.nbytes -= answer.nbytes
