"""Whether an answer is right: `text` stands in it as a word of its own, or one of its numbers is the `number`."""
import re

def passes(task, answer, work):
    check, _, file = task["check"].partition("+file:")
    if check == "text":
        good = re.search(rf"(?<!\w){re.escape(task['expect'])}(?!\w)", answer) is not None
    else:
        plain = re.sub(r"(?<=\d)[,_](?=\d{3})", "", answer)
        good = any(abs(float(n) - task["expect"]) <= task.get("tol", 0) for n in re.findall(r"-?\d+(?:\.\d+)?", plain))
    return good and (not file or (work / file).is_file() and (work / file).read_bytes().startswith(b"\x89PNG"))
