#include "daemon/engine/parameter_fitter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "codec/linear/linear_parameters.h"
#include "codec/linear/rope_search.h"

namespace kvstrata::daemon {

namespace {

using codec::CodecId;
using codec::CodecParameters;

// A fit is due when this many times as much was stored as at the last one.
constexpr std::uint64_t growth = 8;
constexpr std::size_t table_blocks_max = 40;
constexpr std::uint64_t table_bytes_max = 64_MiB;
/// One block in so many is not fitted on, but judges the fit.
constexpr std::size_t judges = 4;
/// New parameters are worth their place if they save one byte in so many.
constexpr std::uint64_t least_gain = 200;
constexpr std::uint32_t layers_below = 3;
constexpr std::uint64_t linear_tokens_min = 2'048;
/// Blocks of a group that are known to be its last.
constexpr std::size_t recent_max = 256;

/// One fit. On a fitter.
class Fit {
 public:
  Fit(Core& core, FitTarget target, const std::atomic<bool>& cancelled)
      : core_(core), target_(std::move(target)), cancelled_(cancelled) {}

  /// What was stored; nothing if what there is serves as well.
  Result<std::optional<CodecTables::Stored>> run(CodecId codec) {
    KV_ASSIGN(const CodecTables::Parameters fitted,
              codec == CodecId::linear ? fit_linear() : fit_tables());
    if (!fitted || cancelled_ || !is_better(*fitted)) return std::optional<CodecTables::Stored>{};
    KV_ASSIGN(const TableId id,
              core_.store->add_table(target_.ns, pack_parameters(target_.group, *fitted)));
    return std::optional(CodecTables::Stored{id, fitted});
  }

 private:
  Result<CodecTables::Parameters> fit_tables();
  Result<CodecTables::Parameters> fit_linear();
  bool take_sample(std::size_t blocks_max, std::uint64_t bytes_max);
  std::uint64_t bytes_with(const SampledBlock& block, const CodecParameters* with) const;
  bool is_better(const CodecParameters& fitted) const;

  Core& core_;
  const FitTarget target_;
  const std::atomic<bool>& cancelled_;
  std::vector<SampledBlock> to_fit_, to_judge_;
};

/// False if there is too little to fit on, or to judge with.
bool Fit::take_sample(std::size_t blocks_max, std::uint64_t bytes_max) {
  auto blocks = sample_blocks(*core_.store, target_, blocks_max, bytes_max, cancelled_);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    (i % judges == judges - 1 ? to_judge_ : to_fit_).push_back(std::move(blocks[i]));
  }
  return !to_judge_.empty() && !cancelled_;
}

Result<CodecTables::Parameters> Fit::fit_tables() {
  if (!take_sample(table_blocks_max, table_bytes_max)) return CodecTables::Parameters{};
  std::vector<ByteView> payloads;
  ByteVector joined;  // values of any length, as one
  if (target_.opaque) {
    const std::size_t scalar_bytes = bytes_per_scalar(target_.dtype);
    for (const SampledBlock& block : to_fit_) {
      const std::size_t whole = block.payload.size() / scalar_bytes * scalar_bytes;
      joined.insert(joined.end(), block.payload.begin(),
                    block.payload.begin() + static_cast<std::ptrdiff_t>(whole));
    }
    if (joined.empty()) return CodecTables::Parameters{};
    payloads.emplace_back(joined);
  } else {
    for (const SampledBlock& block : to_fit_) payloads.emplace_back(block.payload);
  }
  const codec::BlockShape shape = target_.shape_of(joined.size());
  KV_ASSIGN(auto tables, codec::StaticTables::fit(shape, payloads));
  return CodecTables::Parameters(std::move(tables));
}

Result<CodecTables::Parameters> Fit::fit_linear() {
  const codec::BlockShape& shape = target_.shape;
  const std::uint64_t most = core_.options.linear_fit_bytes_max;
  std::uint64_t tokens = std::max(core_.options.linear_fit_tokens, linear_tokens_min);
  const auto needed = [&] {
    return codec::linear_fit_bytes(shape, layers_below, tokens) +
           tokens / shape.tokens * shape.raw_bytes();
  };
  while (tokens > linear_tokens_min && needed() > most) tokens = tokens * 3 / 4;
  if (needed() > most) {
    return Error(ErrorKind::too_large, "a linear model of these blocks needs " +
                                           std::to_string(needed()) + " bytes of memory to fit");
  }
  const std::size_t blocks = tokens / shape.tokens;
  if (!take_sample(blocks + blocks / judges, most)) return CodecTables::Parameters{};
  std::vector<codec::PlacedPayload> payloads;
  for (const SampledBlock& block : to_fit_) {
    payloads.push_back({block.payload, block.first_position});
  }
  codec::LinearFitOptions options;
  options.layers_below = layers_below;
  options.rope = codec::find_rope(shape, payloads);
  options.cancelled = &cancelled_;
  KV_ASSIGN(auto linear, codec::LinearParameters::fit(shape, payloads, options));
  return CodecTables::Parameters(std::move(linear));
}

/// Bytes of the block's frame; with nothing, of a raw one.
std::uint64_t Fit::bytes_with(const SampledBlock& block, const CodecParameters* with) const {
  const codec::BlockShape shape = target_.shape_of(block.payload.size());
  ByteVector frame(codec::frame_bytes_max(shape));
  if (with == nullptr) return frame.size();
  const auto bytes = codec::encode_frame(shape, with, block.payload, 0, frame,
                                         codec::best_simd_level(), block.first_position);
  return bytes ? *bytes : frame.size();
}

bool Fit::is_better(const CodecParameters& fitted) const {
  const CodecTables::Parameters tables = target_.tables->current(CodecId::static_tables).parameters;
  const CodecTables::Parameters linear = target_.tables->current(CodecId::linear).parameters;
  std::uint64_t before = 0, after = 0;
  for (const SampledBlock& block : to_judge_) {
    if (cancelled_) return false;
    // It takes the place of what there is of its codec; that of the other codec stays.
    const std::uint64_t by_tables = bytes_with(block, tables.get());
    const std::uint64_t by_linear = bytes_with(block, linear.get());
    const std::uint64_t by_fitted = bytes_with(block, &fitted);
    before += std::min(by_tables, by_linear);
    after += std::min(by_fitted, fitted.codec() == CodecId::linear ? by_tables : by_linear);
  }
  return after + before / least_gain < before;
}

bool serves_linear(const codec::BlockShape& shape) {
  return codec::has_linear(shape.dtype) && shape.tokens > 1 && shape.head_dim_k % 2 == 0;
}

FitSchedule& schedule_of(LayerGroupState& group, CodecId codec) {
  return codec == CodecId::linear ? group.linear_fit : group.tables_fit;
}

}  // namespace

void ParameterFitter::block_coded(const BlockKey& key, std::uint64_t raw_bytes,
                                  std::uint64_t frame_bytes, bool with_linear) {
  if (raw_bytes == 0) return;
  LayerGroupState& group = namespaces_.get(key.ns)->group(key.group);
  FitSchedule& schedule = with_linear ? group.linear_fit : group.tables_fit;
  if (!schedule.watch.add(raw_bytes, frame_bytes)) return;
  ++core_.counters.gains_lost;
  for (FitSchedule* due : {&group.tables_fit, &schedule}) {
    due->due_bytes = std::max<std::uint64_t>(group.stored_bytes, 1);
    due->drifted = true;
  }
}

void ParameterFitter::block_stored(const BlockKey& key, std::uint64_t raw_bytes) {
  if (core_.options.codec == "raw" || raw_bytes == 0) return;
  Namespace* const ns = namespaces_.get(key.ns);
  if (ns == nullptr) return;
  LayerGroupState& group = ns->group(key.group);
  group.stored_bytes += raw_bytes;
  group.recent.push_back(key);
  if (group.recent.size() > recent_max) group.recent.pop_front();
  if (group.tables_fit.due_bytes == 0) group.tables_fit.due_bytes = growth * raw_bytes;
  const bool wants_linear =
      core_.options.codec == "linear" && !ns->is_opaque() && serves_linear(group.shape);
  if (wants_linear && group.linear_fit.due_bytes == 0) {
    const std::uint64_t blocks = core_.options.linear_fit_tokens / group.shape.tokens;
    group.linear_fit.due_bytes = std::max<std::uint64_t>(blocks, judges) * raw_bytes;
  }
  start_what_is_due(key, group);
}

/// One fit of a group at a time: the end of one may begin another.
void ParameterFitter::start_what_is_due(const BlockKey& key, LayerGroupState& group) {
  if (group.refitting) return;
  if (!start_if_due(key, group, CodecId::static_tables)) start_if_due(key, group, CodecId::linear);
}

bool ParameterFitter::start_if_due(const BlockKey& key, LayerGroupState& group, CodecId codec) {
  FitSchedule& schedule = schedule_of(group, codec);
  if (schedule.due_bytes == 0 || group.stored_bytes < schedule.due_bytes) return false;
  start(key, group, codec);
  schedule.due_bytes = growth * group.stored_bytes;
  schedule.drifted = false;
  return true;
}

void ParameterFitter::start(const BlockKey& key, LayerGroupState& group, CodecId codec) {
  const Namespace& ns = *namespaces_.get(key.ns);
  FitTarget target{.ns = key.ns,
                   .group = key.group,
                   .opaque = ns.is_opaque(),
                   .dtype = ns.model().dtype,
                   .shape = group.shape,
                   .tables = group.tables,
                   .recent = {}};
  if (schedule_of(group, codec).drifted) target.recent = {group.recent.begin(), group.recent.end()};
  group.refitting = true;
  ++core_.counters.fits;
  ++open_fits_;
  core_.fitters->post([this, key, codec, target = std::move(target)] {
    auto fitted = Fit(core_, target, cancelled_).run(codec);
    core_.to_control([this, key, codec, fitted = std::move(fitted)] { end(key, codec, fitted); });
  });
}

void ParameterFitter::end(const BlockKey& key, CodecId codec,
                          const Result<std::optional<CodecTables::Stored>>& fitted) {
  LayerGroupState& group = namespaces_.get(key.ns)->group(key.group);
  group.refitting = false;
  --open_fits_;
  if (!fitted) {
    ++core_.counters.fits_failed;
  } else if (*fitted) {
    ++core_.counters.fits_adopted;
    group.tables->add((*fitted)->id, (*fitted)->parameters);
    schedule_of(group, codec).watch.parameters_changed();
  }
  start_what_is_due(key, group);
}

}  // namespace kvstrata::daemon
