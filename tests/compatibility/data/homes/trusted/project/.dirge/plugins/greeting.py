def register(dirge):
    @dirge.command("greet", help="say a word", headless=True)
    def greet(args, conversation, front):
        return f"{dirge.settings['word']} {args}"
