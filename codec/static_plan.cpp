#include "codec/static_plan.h"

#include <array>

namespace kvstrata::codec {

namespace {

/// Appends units while a plan is made, remembering lanes that stay empty.
class UnitWriter {
 public:
  explicit UnitWriter(StaticPlan& plan) : plan_(plan) {}

  std::size_t lane() const { return plan_.unit_table.size() * unit_lanes; }

  void append(std::uint8_t table, std::size_t scalars) {
    if (scalars == 0) return;  // most tables, in most sub-streams
    const std::size_t end = lane() + scalars;
    plan_.unit_table.resize((end + unit_lanes - 1) / unit_lanes, table);
    if (end != lane()) plan_.paddings.push_back({end, lane()});
  }

  void fill_step() {
    const std::size_t units = plan_.unit_table.size();
    const std::size_t missing = (step_units - units % step_units) % step_units;
    if (missing == 0) return;
    plan_.paddings.push_back({lane(), lane() + missing * unit_lanes});
    plan_.unit_table.resize(units + missing, plan_.unit_table.back());
  }

  std::size_t steps() const { return plan_.unit_table.size() / step_units; }

 private:
  StaticPlan& plan_;
};

}  // namespace

StaticPlan StaticPlan::of(const TableSet& tables, std::uint32_t substream, std::uint8_t table,
                          const Placement& place) {
  const ByteView channel_tables = tables.channel_tables(substream);
  const auto table_of = [&](std::size_t channel) {
    return channel_tables.empty() ? table : std::to_integer<std::uint8_t>(channel_tables[channel]);
  };
  const std::size_t channels = place.channels(), tokens = place.tokens();
  std::array<std::size_t, tables_max> channel_count{};
  for (std::size_t c = 0; c < channels; ++c) ++channel_count[table_of(c)];

  StaticPlan plan;
  plan.unit_table.reserve(channels * tokens / unit_lanes + 2 * step_units + tables.size());
  UnitWriter writer(plan);
  std::array<std::size_t, tables_max> next_lane{};
  for (std::size_t t = 0; t < tables.size(); ++t) {
    if (t == tables.sign_coded_tables()) {
      writer.fill_step();
      plan.sign_steps = writer.steps();
    }
    next_lane[t] = writer.lane();
    writer.append(static_cast<std::uint8_t>(t), channel_count[t] * tokens);
  }
  writer.fill_step();
  plan.steps = writer.steps();
  if (tables.sign_coded_tables() == tables.size()) plan.sign_steps = plan.steps;

  plan.first_lane.resize(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    std::size_t& lane = next_lane[table_of(c)];
    plan.first_lane[c] = static_cast<std::uint32_t>(lane);
    lane += tokens;
  }
  return plan;
}

std::shared_ptr<const StaticPlan> plan_for(const TableSet& tables, std::uint32_t substream,
                                           std::uint8_t table, const Placement& place) {
  constexpr std::size_t kept_bytes_max = 32 << 10;
  const auto make = [&] {
    return std::make_shared<const StaticPlan>(StaticPlan::of(tables, substream, table, place));
  };
  if (tables.dimensions().opaque) return make();  // their order is one table's
  PlanShelf& shelf = tables.plans();
  if (auto plan = shelf.find(substream, place.tokens())) return plan;
  auto plan = make();
  if (plan->bytes() <= kept_bytes_max) shelf.keep(substream, place.tokens(), plan);
  return plan;
}

}  // namespace kvstrata::codec
