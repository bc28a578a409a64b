import unittest

from textstats import average_length, longest_word, words


class TextStats(unittest.TestCase):
    def test_words_lose_their_punctuation(self) -> None:
        self.assertEqual(words('"Well," she said.'), ["Well", "she", "said"])

    def test_of_equally_long_words_the_first_is_the_longest(self) -> None:
        self.assertEqual(longest_word("a sad low dirge was sung"), "dirge")
        self.assertEqual(longest_word("calm seas make poor sailors weary"), "sailors")
        self.assertEqual(longest_word("over land, over seas"), "over")

    def test_no_words_have_no_longest_and_no_length(self) -> None:
        self.assertEqual(longest_word("... !"), "")
        self.assertEqual(average_length(""), 0.0)


if __name__ == "__main__":
    unittest.main()
