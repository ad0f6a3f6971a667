// Fitting the linear codec: least squares on the layers below, Cholesky of what remains, both in
// double; then rounding to the integers that are coded with.
#define EIGEN_USE_BLAS  // which looks at the CPU; Eigen alone is compiled for SSE2
#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <cmath>
#include <deque>

#include "codec/linear/cell_coder.h"
#include "codec/linear/linear_format.h"
#include "codec/linear/linear_pass.h"
#include "codec/linear/number.h"
#include "codec/linear/plain_floats.h"

namespace kvstrata::codec {

namespace {

using Eigen::Index;
using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using Samples = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr double ridge = 1e-4;      // of each input's variance
constexpr double shrinkage = 3e-4;  // of each error's variance
// So that channels that never change, or say the same, leave matrices that can be factored.
constexpr double input_floor = 1e-2;  // inputs have variances near 576
constexpr double error_floor = 1e-6;  // targets have variances near 1
constexpr float value_max = 1e15F;    // sums of squares of more would not be finite
constexpr std::int32_t scale_slope_256 = 198;
constexpr std::size_t sample_blocks_max = 12;

/// One layer of all blocks: a row a token, a column a channel in coding order, RoPE taken off.
struct LayerSamples {
  Samples targets;  ///< in standard deviations from the mean
  Samples inputs;   ///< the same as the codec will see them, in int8 steps
  Vector mean, deviation, input_mean;
};

/// Of tokens, one a row.
using Weights = Eigen::VectorXf;

/// What a layer's solution follows from: covariances, and the means they are taken around.
struct Moments {
  Matrix inputs, between, targets;  ///< inputs with inputs, inputs with targets, targets with them
  Vector input_mean, target_mean;
};

/// Coefficients, and the covariance of what they leave.
struct Solution {
  Matrix coefficients, errors;
};

Solution solve(const Moments& moments) {
  Solution solution{Matrix(moments.inputs.rows(), moments.targets.cols()), moments.targets};
  if (moments.inputs.rows() == 0) return solution;
  Matrix damped = moments.inputs;
  damped.diagonal() *= 1 + ridge;
  damped.diagonal().array() += input_floor;
  solution.coefficients = damped.llt().solve(moments.between);
  const Matrix& by = solution.coefficients;
  solution.errors += by.transpose() * moments.inputs * by - by.transpose() * moments.between -
                     moments.between.transpose() * by;
  return solution;
}

/// Of errors of a class.
double sigma_of(int sigma_class) {
  return std::exp2(sigma_class / static_cast<double>(sigma_steps));
}

/// Errors given those before: lower triangular with ones on the diagonal, and the variances left.
struct Triangle {
  Matrix lower;
  Vector variance;

  explicit Triangle(Matrix errors) {
    errors.diagonal() *= 1 + shrinkage;
    errors.diagonal().array() += error_floor;
    lower = Eigen::LLT<Matrix>(errors).matrixL();
    const Vector diagonal = lower.diagonal();  // apart: what is divided by it holds it
    variance = diagonal.array().square();
    lower *= diagonal.cwiseInverse().asDiagonal();
  }
};

/// Sums in float no longer than this.
constexpr Index rows_at_once = 4096;

Vector weighted_mean(const Samples& samples, const Weights& weights) {
  return (samples.transpose() * weights).cast<double>() / static_cast<double>(weights.sum());
}

Matrix weighted_covariance(const Samples& a, const Vector& mean_a, const Samples& b,
                           const Vector& mean_b, const Weights& weights) {
  Matrix sum = Matrix::Zero(a.cols(), b.cols());
  for (Index row = 0; row < a.rows(); row += rows_at_once) {
    const Index count = std::min(rows_at_once, a.rows() - row);
    const Samples scaled =
        a.middleRows(row, count).array().colwise() * weights.segment(row, count).array();
    sum += (scaled.transpose() * b.middleRows(row, count)).cast<double>();
  }
  return sum / static_cast<double>(weights.sum()) - mean_a * mean_b.transpose();
}

/// Sums of products of centred columns, over the number of rows.
Matrix covariance(const Samples& a, const Samples& b) {
  Matrix sum = Matrix::Zero(a.cols(), b.cols());
  Vector sum_a = Vector::Zero(a.cols()), sum_b = Vector::Zero(b.cols());
  for (Index row = 0; row < a.rows(); row += rows_at_once) {
    const Index count = std::min(rows_at_once, a.rows() - row);
    const auto part_a = a.middleRows(row, count), part_b = b.middleRows(row, count);
    sum += (part_a.transpose() * part_b).cast<double>();
    sum_a += part_a.colwise().sum().transpose().cast<double>();
    sum_b += part_b.colwise().sum().transpose().cast<double>();
  }
  const auto rows = static_cast<double>(a.rows());
  return sum / rows - sum_a * sum_b.transpose() / (rows * rows);
}

class Fit {
 public:
  Fit(const BlockShape& shape, std::span<const PlacedPayload> payloads,
      const LinearFitOptions& options)
      : payloads_(payloads),
        options_(options),
        order_(shape, options.rope.rotary_dim),
        rope_(options.rope) {
    model_.shape = shape;
    model_.rotary_dim = options.rope.rotary_dim;
    model_.rope = rope_;
  }

  Result<LinearModel> run() {
    for (std::uint32_t l = 0; l < model_.shape.layers; ++l) {
      LayerSamples samples = load(l);
      model_.layers.push_back(fit_layer(samples));
      if (is_cancelled()) return Error(ErrorKind::cancelled, "fit linear: cancelled");
      remember(std::move(samples));
    }
    fit_scales();
    fit_tables();
    return std::move(model_);
  }

 private:
  LayerSamples load(std::uint32_t layer) const;
  void take_off_rope(Samples& values) const;
  std::uint32_t tokens_of(const PlacedPayload& payload) const {
    return model_.shape.tokens - (payload.first_position == 0 ? 1 : 0);
  }
  LinearLayer fit_layer(const LayerSamples& samples);
  void remember(LayerSamples samples);
  Index channels() const;
  bool is_cancelled() const { return options_.cancelled != nullptr && *options_.cancelled; }
  Moments moments_of(const LayerSamples& samples, const Weights* weights) const;
  Weights weights_of(const LayerSamples& samples, const Moments& moments,
                     const Solution& solution) const;
  void set_errors(LinearLayer& layer, const LayerSamples& samples, const Matrix& errors,
                  double parameters) const;
  void set_map(LinearLayer& layer, const LayerSamples& samples, const Moments& moments,
               const Matrix& coefficients) const;
  void round_map(LinearLayer& layer, Matrix& weights, const Moments& moments,
                 Vector& at_mean) const;
  template <typename Each>
  void pass_over_samples(Each&& each) const;
  void fit_scales();
  void fit_tables();

  std::span<const PlacedPayload> payloads_;
  LinearFitOptions options_;
  LayerOrder order_;
  Rope rope_;
  LinearModel model_;
  std::deque<LayerSamples> below_;           ///< the nearest first
  std::deque<std::deque<Matrix>> products_;  ///< [i][j]: inputs of below_[i] with those of [i + j]
};

LayerSamples Fit::load(std::uint32_t layer) const {
  const ScalarFormat format = scalar_format(model_.shape.dtype);
  const LayerPlaces places(model_.shape, layer);
  Index rows = 0;
  for (const PlacedPayload& payload : payloads_) rows += tokens_of(payload);
  LayerSamples samples;
  Samples& values = samples.targets;
  values.resize(rows, static_cast<Index>(order_.size()));
  Index row = 0;
  for (const PlacedPayload& payload : payloads_) {
    // The first token of a sequence is like no other, and one in many: it is left out.
    for (std::uint32_t t = model_.shape.tokens - tokens_of(payload); t < model_.shape.tokens; ++t) {
      for (std::size_t c = 0; c < order_.size(); ++c) {
        const std::byte* const scalar = payload.bytes.data() + places.at(order_.channels()[c], t);
        const float value = value_of(format, load_scalar(scalar, format.bytes));
        values(row, static_cast<Index>(c)) = std::clamp(value, -value_max, value_max);
      }
      ++row;
    }
  }
  take_off_rope(values);
  samples.mean = values.colwise().mean().transpose().cast<double>();
  values.rowwise() -= samples.mean.transpose().cast<float>();
  samples.deviation =
      values.colwise().norm().transpose().cast<double>() / std::sqrt(static_cast<double>(rows));
  for (double& deviation : samples.deviation) deviation = std::max(deviation, 1e-12);
  values.array().rowwise() /= samples.deviation.transpose().cast<float>().array();
  samples.inputs = (values * input_units).array().round().cwiseMax(-127).cwiseMin(127);
  samples.input_mean = samples.inputs.colwise().mean().transpose().cast<double>();
  return samples;
}

void Fit::take_off_rope(Samples& values) const {
  Index row = 0;
  for (const PlacedPayload& payload : payloads_) {
    for (std::uint32_t t = model_.shape.tokens - tokens_of(payload); t < model_.shape.tokens; ++t) {
      for (std::size_t c = 0; c < order_.size(); ++c) {
        const LayerOrder::Channel& channel = order_.channels()[c];
        if (!channel.first_of_pair) continue;
        const Turn turn =
            rope_.at(static_cast<std::uint32_t>(channel.pair), payload.first_position + t);
        float& first = values(row, static_cast<Index>(c));
        float& second = values(row, static_cast<Index>(c + 1));
        const float a = first * turn.cosine + second * turn.sine;
        second = second * turn.cosine - first * turn.sine;
        first = a;
      }
      ++row;
    }
  }
}

Index Fit::channels() const {
  return static_cast<Index>(order_.size());
}

/// With `weights`, or of all tokens alike: then what the layers below have in common is known.
Moments Fit::moments_of(const LayerSamples& samples, const Weights* weights) const {
  const auto count = static_cast<Index>(below_.size());
  const auto below = [&](Index i) -> const LayerSamples& {
    return below_[static_cast<std::size_t>(i)];
  };
  const auto of = [&](const Samples& a, const Vector& mean_a, const Samples& b,
                      const Vector& mean_b) {
    return weights != nullptr ? weighted_covariance(a, mean_a, b, mean_b, *weights)
                              : covariance(a, b);
  };
  Moments moments{Matrix(count * channels(), count * channels()),
                  Matrix(count * channels(), channels()), Matrix(), Vector(count * channels()),
                  Vector::Zero(channels())};
  if (weights != nullptr) moments.target_mean = weighted_mean(samples.targets, *weights);
  moments.targets = of(samples.targets, moments.target_mean, samples.targets, moments.target_mean);
  for (Index i = 0; i < count; ++i) {
    moments.input_mean.segment(i * channels(), channels()) =
        weights != nullptr ? weighted_mean(below(i).inputs, *weights) : below(i).input_mean;
  }
  for (Index i = 0; i < count; ++i) {
    const Vector mean = moments.input_mean.segment(i * channels(), channels());
    moments.between.middleRows(i * channels(), channels()) =
        of(below(i).inputs, mean, samples.targets, moments.target_mean);
    for (Index j = i; j < count; ++j) {
      const Matrix block =
          weights != nullptr
              ? of(below(i).inputs, mean, below(j).inputs,
                   moments.input_mean.segment(j * channels(), channels()))
              : products_[static_cast<std::size_t>(i)][static_cast<std::size_t>(j - i)];
      moments.inputs.block(i * channels(), j * channels(), channels(), channels()) = block;
      moments.inputs.block(j * channels(), i * channels(), channels(), channels()) =
          block.transpose();
    }
  }
  return moments;
}

/// 1 / (mean squared error of the token, in sigmas): tokens that are predicted badly, and for which
/// the scale per token makes up, should not decide how the others are.
Weights Fit::weights_of(const LayerSamples& samples, const Moments& moments,
                        const Solution& solution) const {
  constexpr float least = 0.05F, most = 50.0F;
  Samples errors = samples.targets.rowwise() - moments.target_mean.transpose().cast<float>();
  for (std::size_t i = 0; i < below_.size(); ++i) {
    const auto at = static_cast<Index>(i) * channels();
    const Matrix coefficients = solution.coefficients.middleRows(at, channels());
    const Samples centred = below_[i].inputs.rowwise() -
                            moments.input_mean.segment(at, channels()).transpose().cast<float>();
    errors -= centred * coefficients.cast<float>();
  }
  const Triangle triangle(solution.errors);
  const Eigen::MatrixXf lower = triangle.lower.cast<float>();
  const Eigen::MatrixXf alone =
      lower.triangularView<Eigen::UnitLower>().solve(Eigen::MatrixXf(errors.transpose()));
  const Eigen::VectorXf per_variance = triangle.variance.cwiseInverse().cast<float>();
  const Eigen::VectorXf mean =
      (alone.array().square().colwise() * per_variance.array()).colwise().mean().transpose();
  return mean.cwiseMax(least).cwiseMin(most).cwiseInverse();
}

void Fit::remember(LayerSamples samples) {
  std::deque<Matrix> row{covariance(samples.inputs, samples.inputs)};
  for (const LayerSamples& other : below_) row.push_back(covariance(samples.inputs, other.inputs));
  below_.push_front(std::move(samples));
  products_.push_front(std::move(row));
  if (below_.size() > options_.layers_below) {
    below_.pop_back();
    products_.pop_back();
    for (std::deque<Matrix>& one : products_) {
      while (one.size() > products_.size()) one.pop_back();
    }
  }
}

/// Not whole if the fit was cancelled meanwhile.
LinearLayer Fit::fit_layer(const LayerSamples& samples) {
  LinearLayer layer;
  layer.below = static_cast<std::uint32_t>(below_.size());
  for (Index c = 0; c < channels(); ++c) {
    layer.mean.push_back(static_cast<float>(samples.mean(c)));
    layer.input_scale.push_back(static_cast<float>(input_units / samples.deviation(c)));
  }
  Moments moments = moments_of(samples, nullptr);
  if (is_cancelled()) return layer;
  Solution solution = solve(moments);
  if (is_cancelled()) return layer;
  if (model_.layers.size() < options_.weighted_layers) {
    const Weights weights = weights_of(samples, moments, solution);
    moments = moments_of(samples, &weights);
    solution = solve(moments);
  }
  set_errors(layer, samples, solution.errors, static_cast<double>(moments.inputs.rows()));
  if (is_cancelled()) return layer;
  set_map(layer, samples, moments, solution.coefficients);
  return layer;
}

/// Sigmas, and what each error tells of those after it.
void Fit::set_errors(LinearLayer& layer, const LayerSamples& samples, const Matrix& errors,
                     double parameters) const {
  const Index channels = this->channels();
  const Triangle triangle(errors);
  Matrix lower = triangle.lower;
  const Vector& variance = triangle.variance;
  const auto rows = static_cast<double>(samples.targets.rows());
  Vector sigma(channels);
  for (Index c = 0; c < channels; ++c) {
    const double more = 1 + 2 * (parameters + static_cast<double>(c)) / rows;  // than in the sample
    sigma(c) = samples.deviation(c) * std::sqrt(std::max(variance(c), 1e-12) * more);
  }
  for (Index c = 0; c + 1 < channels; ++c) {
    if (!order_.channels()[static_cast<std::size_t>(c)].first_of_pair) continue;
    // A pair has one sigma and no slope inside, since it is coded turned.
    const double slope = lower(c + 1, c);
    const double moved = slope * samples.deviation(c + 1) / samples.deviation(c) * sigma(c);
    const double both = (sigma(c) * sigma(c) + sigma(c + 1) * sigma(c + 1) + moved * moved) / 2;
    lower.col(c) -= slope * lower.col(c + 1);
    lower(c, c) = 1;
    sigma(c) = sigma(c + 1) = std::sqrt(both);
  }
  for (Index c = 0; c < channels; ++c) {
    const double steps = sigma_steps * std::log2(sigma(c));
    layer.sigma_class.push_back(static_cast<std::int16_t>(
        std::clamp(std::lround(steps), long{-sigma_class_max}, long{sigma_class_max})));
    sigma(c) = sigma_of(layer.sigma_class.back());
  }
  // In units of the errors' sigmas.
  const Vector unit = samples.deviation.cwiseQuotient(sigma);
  const Matrix tells = unit.asDiagonal() * lower * unit.cwiseInverse().asDiagonal();
  const auto panel = static_cast<Index>(panel_channels);
  layer.joint.assign(static_cast<std::size_t>(channels * channels), 0);
  layer.in_panel.assign(static_cast<std::size_t>(channels * panel), 0);
  for (Index c = 0; c < channels; ++c) {
    const Index first = c / panel * panel;
    const double largest = first == 0 ? 0 : tells.row(c).head(first).cwiseAbs().maxCoeff();
    const double step = std::max(largest, 1e-9) / 127;
    for (Index j = 0; j < first; ++j) {
      layer.joint[static_cast<std::size_t>(c * channels + j)] =
          static_cast<std::int8_t>(std::lround(tells(c, j) / step));
    }
    layer.joint_scale.push_back(static_cast<float>(step / error_int8_units));
    for (Index j = first; j < c; ++j) {
      layer.in_panel[static_cast<std::size_t>(c * panel + j - first)] =
          static_cast<float>(tells(c, j));
    }
  }
}

/// What is predicted where all inputs are 0, and by how much more a step of each.
void Fit::set_map(LinearLayer& layer, const LayerSamples& samples, const Moments& moments,
                  const Matrix& coefficients) const {
  Matrix weights(channels(), coefficients.rows());  // in sigmas per int8 step of an input
  Vector at_mean(channels());  // what is predicted where all inputs are at their means
  for (Index c = 0; c < channels(); ++c) {
    const double sigma = sigma_of(layer.sigma_class[static_cast<std::size_t>(c)]);
    if (weights.cols() != 0)
      weights.row(c) = coefficients.col(c).transpose() * (samples.deviation(c) / sigma);
    at_mean(c) = (samples.mean(c) + samples.deviation(c) * moments.target_mean(c)) / sigma;
  }
  layer.map_scale.assign(order_.size(), 0);
  if (weights.cols() != 0) round_map(layer, weights, moments, at_mean);
  for (Index c = 0; c < channels(); ++c) layer.bias.push_back(static_cast<float>(at_mean(c)));
}

/// `weights` rounded to int8, row by row with one scale; what rounding one coefficient does is made
/// up for by those after it (as GPTQ does). `at_mean` becomes what is predicted at 0.
void Fit::round_map(LinearLayer& layer, Matrix& weights, const Moments& moments,
                    Vector& at_mean) const {
  const Index channels = weights.rows(), count = weights.cols();
  Matrix damped = moments.inputs;
  damped.diagonal().array() += 1e-4 * damped.diagonal().mean() + input_floor;
  const Matrix inverse = damped.llt().solve(Matrix::Identity(count, count));
  const Matrix upper = Eigen::LLT<Matrix>(inverse).matrixU();
  layer.map.assign(static_cast<std::size_t>(channels * count), 0);
  Vector step(channels);
  for (Index c = 0; c < channels; ++c) {
    step(c) = std::max(weights.row(c).cwiseAbs().maxCoeff(), 1e-12) / 127;
    layer.map_scale[static_cast<std::size_t>(c)] = static_cast<float>(step(c));
  }
  // In blocks: within one, column by column; what it does to all after it is one product.
  constexpr Index block = 64;
  for (Index first = 0; first < count; first += block) {
    const Index size = std::min(block, count - first), after = count - first - size;
    Matrix left(channels, size);
    for (Index j = 0; j < size; ++j) {
      const Index i = first + j;
      for (Index c = 0; c < channels; ++c) {
        const long rounded = std::clamp(std::lround(weights(c, i) / step(c)), -127L, 127L);
        layer.map[static_cast<std::size_t>(c * count + i)] = static_cast<std::int8_t>(rounded);
        left(c, j) = (weights(c, i) - static_cast<double>(rounded) * step(c)) / upper(i, i);
        at_mean(c) -= static_cast<double>(rounded) * step(c) * moments.input_mean(i);
      }
      const Index rest = size - j - 1;
      weights.middleCols(i + 1, rest) -= left.col(j) * upper.row(i).segment(i + 1, rest);
    }
    weights.rightCols(after) -= left * upper.block(first, first + size, size, after);
  }
}

template <typename Each>
void Fit::pass_over_samples(Each&& each) const {
  const std::size_t stride = std::max<std::size_t>(1, payloads_.size() / sample_blocks_max);
  for (std::size_t i = 0; i < payloads_.size(); i += stride) {
    LinearPass pass(model_, model_.shape.tokens, payloads_[i].first_position);
    for (std::uint32_t l = 0; l < model_.shape.layers; ++l) {
      const LayerPlaces places(model_.shape, l);
      pass.layer([&](const LayerOrder::Channel& channel, const Guesses& guesses,
                     std::span<std::uint32_t> patterns) {
        places.load(payloads_[i].bytes, channel, patterns);
        for (std::size_t t = 0; t < patterns.size(); ++t) {
          each.scalar(patterns[t], guesses.mu[t], guesses.sigma_class[t]);
        }
        return true;
      });
      each.layer(l, pass.layer_steps());
    }
  }
}

/// Where each layer's scale begins, given that of the layer below.
void Fit::fit_scales() {
  struct Sum {
    std::size_t tokens;
    std::vector<std::int64_t> offset, count;
    std::vector<int> before;
    void scalar(std::uint32_t, float, int) {}
    void layer(std::uint32_t l, const std::vector<int>& steps) {
      for (std::size_t t = 0; t < tokens; ++t) {
        const int of_below = l == 0 ? 0 : before[t];
        offset[l] += std::int64_t{steps[t]} * 256 - std::int64_t{scale_slope_256} * of_below;
        ++count[l];
      }
      before = steps;
    }
  };
  Sum sum{.tokens = model_.shape.tokens};
  sum.offset.resize(model_.layers.size());
  sum.count.resize(model_.layers.size());
  pass_over_samples(sum);
  for (std::size_t l = 0; l < model_.layers.size(); ++l) {
    model_.layers[l].scale_offset_256 = static_cast<std::int32_t>(sum.offset[l] / sum.count[l]);
    model_.layers[l].scale_slope_256 = l == 0 ? 0 : scale_slope_256;
  }
}

void Fit::fit_tables() {
  struct Count {
    DType dtype;
    CellCounts counts{};
    void scalar(std::uint32_t pattern, float mu, int sigma_class) {
      count_cell(dtype, pattern, mu, sigma_class, counts);
    }
    void layer(std::uint32_t, const std::vector<int>&) {}
  };
  Count count{model_.shape.dtype};
  pass_over_samples(count);
  model_.tables = CellTables::fit(count.counts);
}

}  // namespace

std::uint64_t linear_fit_bytes(const BlockShape& shape, std::uint32_t layers_below,
                               std::uint64_t tokens) {
  const std::uint64_t channels = std::uint64_t{shape.channels(Side::k)} + shape.channels(Side::v);
  const std::uint64_t below = layers_below * channels;
  // Targets and inputs of a layer and those below it, and what is made of them on the way.
  const std::uint64_t samples = tokens * channels * sizeof(float) * 2 * (layers_below + 3);
  // Moments, their damped copy, its factor, the inverse and its factor, products kept.
  const std::uint64_t matrices = sizeof(double) * (6 * below * below + 6 * below * channels);
  const std::uint64_t model = shape.layers * (below + 2 * channels) * channels;
  return samples + matrices + model;
}

Result<LinearModel> fit_linear(const BlockShape& shape, std::span<const PlacedPayload> payloads,
                               const LinearFitOptions& options) {
  const auto invalid = [](const char* what) {
    return Error(ErrorKind::invalid_argument, std::string("fit linear: ") + what);
  };
  KV_TRY(check_shape(shape));
  if (shape.is_opaque()) return invalid("opaque values have no layers");
  if (!has_linear(shape.dtype)) return invalid("this dtype is not served");
  if (options.rope.rotary_dim % 2 != 0 || options.rope.rotary_dim > shape.head_dim_k ||
      shape.head_dim_k % 2 != 0) {
    return invalid("the rotary dimension is even and no larger than an even head_dim_k");
  }
  if (std::uint64_t{shape.channels(Side::k)} + shape.channels(Side::v) > linear_channels_max) {
    return invalid("more than 16,384 channels a layer");
  }
  if (options.layers_below > layers_below_max) return invalid("more than 8 layers below");
  if (!(options.rope.theta > 1 && options.rope.theta < 1e12)) return invalid("theta is 1..1e12");
  std::uint64_t tokens = 0;  // those that are fitted on
  for (const PlacedPayload& payload : payloads) {
    if (payload.bytes.size() != shape.raw_bytes()) return invalid("a payload of another size");
    tokens += shape.tokens - (payload.first_position == 0 ? 1 : 0);
  }
  if (tokens < 2) return invalid("too few tokens");
  const PlainFloats plain;
  return Fit(shape, payloads, options).run();
}

}  // namespace kvstrata::codec
