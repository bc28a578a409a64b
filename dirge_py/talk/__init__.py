"""What the front ends that a person types into share: driving a conversation, starting, ending."""
