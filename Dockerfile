# oppa with its data, for podman or docker:
#
#   podman build --tag oppa .
#   podman run --rm --volume "$PWD:/work" oppa plan --model config.json --gpus 2x8 --gpu h100 --batch 256 --seq 8192
FROM docker.io/library/debian:bookworm-slim AS build
WORKDIR /oppa
COPY scripts/install-deps scripts/
RUN scripts/install-deps --deb
COPY . .
RUN make deb

FROM docker.io/library/debian:bookworm-slim
RUN --mount=type=bind,from=build,source=/oppa/build/deb,target=/deb \
    apt-get update && apt-get install --yes --no-install-recommends /deb/*.deb \
    && apt-get clean && rm -rf /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["oppa"]
