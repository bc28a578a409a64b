"""Small statistics about a text."""


def words(text: str) -> list[str]:
    """The words of `text`, in order, without the punctuation around them."""
    stripped = (word.strip(".,;:!?()\"'") for word in text.split())
    return [word for word in stripped if word]


def longest_word(text: str) -> str:
    """The longest word of `text`, the first of several; empty if there is none."""
    longest = ""
    for word in words(text):
        if len(word) >= len(longest):
            longest = word
    return longest


def average_length(text: str) -> float:
    """The mean number of letters in a word of `text`; 0.0 if there is none."""
    found = words(text)
    return sum(map(len, found)) / len(found) if found else 0.0
