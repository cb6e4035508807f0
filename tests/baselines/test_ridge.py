import numpy as np

from genar import metrics
from genar.baselines import gene_mean, pca_ridge


def test_ridge_finds_a_linear_signal_and_the_mean_does_not() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 20))
    counts = rng.poisson(np.exp2(2 + features @ rng.normal(size=(20, 6)) * 0.3))
    logs = metrics.log_counts(counts)
    section = np.repeat(["a", "b"], 100)
    predicted, same = pca_ridge(features[:200], logs[:200], section, [features[200:], features[200:250]])
    mean = gene_mean(logs[:200], 100)
    assert metrics.summary(predicted, counts[200:])["PCC-200"] > 0.7
    assert metrics.summary(predicted, counts[200:])["MSE"] < 0.6 * metrics.summary(mean, counts[200:])["MSE"]
    assert np.allclose(same, predicted[:50])
    assert np.allclose(mean, logs[:200].mean(axis=0))
    # fewer spots than components
    assert pca_ridge(features[:30], logs[:30], np.repeat(["a", "b"], 15), [features[200:]])[0].shape == (100, 6)
    # one training section: five folds of spots instead
    assert pca_ridge(features[:200], logs[:200], np.repeat("a", 200), [features[200:]])[0].shape == (100, 6)
