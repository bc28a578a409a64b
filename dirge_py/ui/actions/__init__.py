"""What the keys of the screen do: one method per action of the keymap, in classes by purpose."""
