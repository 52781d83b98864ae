"""`flashlane classifier`: train the complexity classifier, measure it, and ask it why."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from classifier.model import Classifier
from classifier.types import ComplexityEstimate, Conversation, Turn
from gateway.cli.classifier_adapt import adapt, rollback, versions
from gateway.cli.classifier_eval import evaluate
from gateway.cli.classifier_output import JsonOption, one_line_errors, print_json, progress_line
from gateway.cli.classifier_tenant import record
from gateway.rankers import loss_bound

# Training and evaluation import numpy and scikit-learn; `explain` must not wait for them, so their modules
# are imported by the commands that need them.

app = typer.Typer(help="The complexity classifier: train, adapt, measure, explain.", no_args_is_help=True)
app.command()(adapt)
app.command()(record)
app.command()(versions)
app.command()(rollback)
app.command("eval")(evaluate)

EXPLAINED_SHARE = 0.35

DataOption = Annotated[Path, typer.Option("--data", help="Folder of labelled .parquet files, one a source.")]


@app.command()
def train(
    data: DataOption,
    out: Annotated[Path, typer.Option("--out", help="Folder that the weights are written to.")],
) -> None:
    """Train on labelled prompts, measure by leaving out one source at a time, and write the weights."""
    with one_line_errors(), progress_line() as report:
        from classifier.release import train as train_weights

        card = train_weights(data, out, report)
    typer.echo(f"{card.version} written to {out}")


@app.command()
def explain(
    prompt: Annotated[str, typer.Argument(help="The last user turn.")],
    *,
    system: Annotated[str, typer.Option("--system", help="The system prompt; names the task.")] = "",
    task: Annotated[str, typer.Option("--task", help="The task's name, as a record has it.")] = "",
    model: Annotated[Path | None, typer.Option("--model", help="Weights to ask; the shipped ones.")] = None,
    max_quality_loss: Annotated[
        float | None,
        typer.Option("--max-quality-loss", min=1e-6, max=1 - 1e-6, help="Cut for this loss, where proven."),
    ] = None,
    confidence: Annotated[
        float, typer.Option("--confidence", min=1e-6, max=1 - 1e-6, help="Of the loss.")
    ] = 0.95,
    as_json: JsonOption = False,
) -> None:
    """Print the score of a prompt, where it would go, and what moved it."""
    with one_line_errors():
        classifier = Classifier.load(model)
    conversation = Conversation(turns=[Turn("user", prompt)], system=system, task=task)
    estimate = classifier.estimate(conversation)
    cut, rule = classifier.reference_cut(EXPLAINED_SHARE), f"at a standard share of {EXPLAINED_SHARE:.0%}"
    if max_quality_loss is not None:
        bound = loss_bound(classifier, max_quality_loss, confidence)
        proven = f"for a loss of {max_quality_loss:g} with confidence {confidence:g} ({bound.note})"
        rule = proven if bound.cut is not None else f"{rule}, as there is none {proven}"
        cut = cut if bound.cut is None else bound.cut
    moved = classifier.contributions(estimate.features, conversation)
    route = "standard" if estimate.score > cut else "flash"
    if as_json:
        explanation = _Explanation(
            score=round(estimate.score, 4),
            cut=round(cut, 4),
            standard_share=EXPLAINED_SHARE,
            cut_rule=rule,
            route=route,
            domain=estimate.domain,
            task=estimate.task,
            model_version=estimate.model_version,
            features={
                name: _Feature(round(value, 4), round(moved[name], 4))
                for name, value in estimate.features.items()
            },
            parts={name: round(by, 4) for name, by in moved.items() if name not in estimate.features},
        )
        print_json(explanation)
        return
    console = Console()
    console.print(f"score {estimate.score:.3f}, cut {rule}: {cut:.3f} -> [bold]{route}[/bold]")
    console.print(f"domain {estimate.domain}, task {estimate.task or '-'}, weights {estimate.model_version}")
    console.print(_features_table(estimate, moved))


class _Feature(msgspec.Struct, frozen=True):
    value: float
    contribution: float


class _Explanation(msgspec.Struct, frozen=True, kw_only=True):
    score: float
    cut: float
    standard_share: float
    cut_rule: str
    route: str
    domain: str
    task: str
    model_version: str
    features: dict[str, _Feature]
    parts: dict[str, float]


def _features_table(estimate: ComplexityEstimate, moved: Mapping[str, float]) -> Table:
    table = Table(title="What moved the score, against the median of the reference (not additive)")
    table.add_column("feature")
    table.add_column("value", justify="right")
    table.add_column("contribution", justify="right")
    for name in sorted(moved, key=lambda name: -abs(moved[name])):
        value = f"{estimate.features[name]:.3f}" if name in estimate.features else "-"
        table.add_row(name, value, f"{moved[name]:+.3f}")
    return table
