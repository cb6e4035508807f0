FROM pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime

WORKDIR /opt/genar
COPY pyproject.toml README.md LICENSE ./
COPY genar ./genar
# The image brings torch for its CUDA version; the rest comes from PyPI.
RUN pip install --no-cache-dir --break-system-packages . \
    && useradd --create-home --uid 1000 genar

USER 1000:1000
WORKDIR /data
ENTRYPOINT ["genar"]
CMD ["--help"]
