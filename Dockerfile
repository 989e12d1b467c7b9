# Serves the folder that is mounted at /docs:
#   docker build -t lmkrag .
#   docker run -p 127.0.0.1:8700:8700 -v "$PWD/docs:/docs:ro" lmkrag
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN pip install --no-cache-dir build==1.3.0 && python -m build --wheel --outdir /wheel

FROM python:3.13-slim
COPY --from=build /wheel /wheel
COPY constraints.txt /wheel/
RUN pip install --no-cache-dir -c /wheel/constraints.txt "$(ls /wheel/*.whl)[serve]" \
    && useradd --create-home --uid 1000 lmkrag \
    && install -d -o lmkrag /index
COPY docker-entrypoint.sh /usr/local/bin/
USER 1000
ENV HF_HUB_OFFLINE=1
VOLUME /index
EXPOSE 8700
HEALTHCHECK --start-period=10m CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8700/healthz')"]
ENTRYPOINT ["docker-entrypoint.sh"]
