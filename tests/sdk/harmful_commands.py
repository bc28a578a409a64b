"""Commands that change a project, each in another way."""

from pathlib import Path


def hostile(project: Path, *, with_marks: bool = True) -> list[str]:
    """Commands for a project with a file `a` and a folder `sub`.

    `with_marks`: also such as change modes and times, but no content.
    """
    p = str(project)
    commands = [
        f"echo x > {p}/a",
        f"echo x >> {p}/sub/new",
        f"cat > {p}/here <<'END'\nx\nEND",
        f"python3 -c \"open('{p}/a', 'w').write('x')\"",
        f"truncate -s 0 {p}/a",
        f"touch {p}/b",
        f"mkdir -p {p}/made/deep",
        f"rm -rf {p}/sub",
        f"mv {p}/a {p}/b",
        f"mv {p}/a .",
        f"ln -s /etc {p}/link",
        f"ln {p}/a hard && echo x > hard",
        f"sed -i s/one/two/ {p}/a",
        f"dd if=/dev/zero of={p}/a count=1",
        f"cp /etc/hostname {p}/a",
        f"mkfifo {p}/pipe",
        f"git -C {p} -c user.name=a -c user.email=a@b commit -q --allow-empty -m x",
        f"git -C {p} config a.b c",
        f"git -C {p} checkout -q -b other",
        f"git -C {p} pack-refs --all",
        f"echo x > /proc/self/root{p}/a",
        f"cd {p} && echo x > a && echo x > new",
        f"(setsid sh -c 'echo x > {p}/a; sleep 0.05; echo x > {p}/late' > /dev/null 2>&1 &)",
        f"mount -o remount,rw {p}; mount -t tmpfs none {p}",
    ]
    marks = [f"chmod 777 {p}/a", f"chmod -R 0 {p}/sub", f"touch {p}/a", f"touch -d @0 {p}/sub/b"]
    return [*commands, *marks] if with_marks else commands
