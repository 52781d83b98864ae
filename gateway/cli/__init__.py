"""The command `flashlane`."""

import typer

from gateway.cli import classifier, config, keys, models, prefix, serve

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="One OpenAI-compatible endpoint in front of a fast, cheap model and a strong one.",
)
app.command()(serve.up)
app.command(name="serve")(serve.serve)
app.add_typer(models.app, name="models")
app.add_typer(keys.app, name="keys")
app.add_typer(config.app, name="config")
app.add_typer(classifier.app, name="classifier")
app.add_typer(prefix.app, name="prefix")
