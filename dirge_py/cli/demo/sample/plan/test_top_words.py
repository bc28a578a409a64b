"""What `top_words` has to do, written before there is one."""

import unittest

import textstats


class TopWords(unittest.TestCase):
    def test_the_words_come_with_their_counts(self) -> None:
        self.assertEqual(textstats.top_words("to be or not to be", 2), [("to", 2), ("be", 2)])

    def test_case_does_not_matter(self) -> None:
        self.assertEqual(textstats.top_words("The sea, the bell, THE dirge", 1), [("the", 3)])

    def test_of_equally_frequent_words_the_first_comes_first(self) -> None:
        self.assertEqual(textstats.top_words("b a c", 3), [("b", 1), ("a", 1), ("c", 1)])

    def test_there_may_be_fewer_than_asked_for(self) -> None:
        self.assertEqual(textstats.top_words("one", 5), [("one", 1)])
        self.assertEqual(textstats.top_words("", 5), [])


if __name__ == "__main__":
    unittest.main()
