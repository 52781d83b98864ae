# The gateway, without any model. Engines run beside it; see compose.yaml.
FROM python:3.12-slim-bookworm AS build

RUN python -m venv /opt/flashlane
ENV PATH=/opt/flashlane/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# The locked dependencies first: they change less often than the code.
COPY requirements.lock /src/
RUN pip install --require-hashes -r /src/requirements.lock

COPY pyproject.toml README.md LICENSE /src/
COPY backends /src/backends
COPY classifier /src/classifier
COPY gateway /src/gateway
COPY policies /src/policies
RUN pip install --no-deps /src


FROM python:3.12-slim-bookworm

RUN useradd --system --uid 10001 --home-dir /var/lib/flashlane --create-home flashlane
COPY --from=build /opt/flashlane /opt/flashlane
ENV PATH=/opt/flashlane/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    FLASHLANE_STATE=/var/lib/flashlane \
    FLASHLANE_MODELS=/var/lib/flashlane/models

USER flashlane
WORKDIR /var/lib/flashlane
VOLUME /var/lib/flashlane
EXPOSE 8080
CMD ["flashlane", "serve", "--config", "/etc/flashlane/flashlane.yaml"]
