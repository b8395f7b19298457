import unittest

from shop import total


class Total(unittest.TestCase):
    def test_total(self):
        assert total([1, 2]) == 3
