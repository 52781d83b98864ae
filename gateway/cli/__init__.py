"""The command `flashlane`."""

import typer

from gateway.cli import classifier, config, engine, gsm, keys, models, prefix, prompts, serve, simulate

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="One OpenAI-compatible endpoint in front of a fast, cheap model and a strong one.",
)
app.command()(serve.up)
app.command(name="serve")(serve.serve)
app.command(name="simulate")(simulate.run)
app.command(name="engine")(engine.engine)
app.command(name="prompts")(prompts.prompts)
app.add_typer(models.app, name="models")
app.add_typer(keys.app, name="keys")
app.add_typer(config.app, name="config")
app.add_typer(classifier.app, name="classifier")
app.add_typer(gsm.app, name="gsm")
app.add_typer(prefix.app, name="prefix")
