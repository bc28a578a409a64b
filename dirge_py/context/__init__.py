"""What is sent to the model besides the conversation itself."""
