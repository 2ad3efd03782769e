"""Learn, keep learning, and predict: digits that arrive two at a time.

python examples/new_classes_every_week.py
"""

from layup import LayUP
from layup.benchmark.metrics import accuracy
from layup.cli.digits import digits_tasks


def main() -> None:
    model = LayUP("vit-nano", progress=False)
    tasks = digits_tasks()
    for week, task in enumerate(tasks, start=1):
        images, labels = task.train
        model.learn(images, labels)  # the images are not needed after this line
        seen = [accuracy(old.test[1], model.predict(old.test[0])) for old in tasks[:week]]
        print(f"week {week}: knows {' '.join(model.classes_)}; accuracy so far {sum(seen) / week:.3f}")


if __name__ == "__main__":
    main()
