#include "jobs/plan/purchase.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "common/text.h"
#include "common/units.h"
#include "plots/page/assets.h"
#include "trials/objective.h"

namespace jobs {
namespace {

constexpr double kSecondsPerDay = 86400.0;
constexpr double kHoursPerDay = 24.0;
constexpr double kMega = 1e6;

double TonnesOf(const TrainingAssumptions& assumptions, const Offer& offer) {
  return offer.energy_mwh * assumptions.grams_co2_per_kwh / 1e3;
}

bool IsPriced(const std::vector<Offer>& offers) {
  return std::ranges::all_of(
      offers, [](const Offer& one) { return !one.best || one.money > 0.0; });
}

// What is weighed against days: thousand USD, or GPU days.
double CostOf(const Offer& offer, bool priced) {
  return priced ? offer.money / 1e3 : offer.days * offer.size.gpus();
}

void MarkFront(std::vector<Offer>& offers) {
  const bool priced = IsPriced(offers);
  std::vector<trials::TimeAndCost> points;
  std::vector<Offer*> possible;
  for (Offer& offer : offers) {
    if (offer.best) {
      points.push_back({offer.days, CostOf(offer, priced)});
      possible.push_back(&offer);
    }
  }
  for (const std::size_t i : trials::ParetoFront(points)) {
    possible[i]->is_best_choice = true;
  }
}

std::string Name(const Offer& offer) {
  return fmt::format("{} {}, {}, {}", offer.size.gpus(), offer.kind,
                     offer.framework, LayoutName(offer.best->config));
}

std::string Money(double money) {
  return money >= kMega ? fmt::format("{:.3g} million USD", money / kMega)
                        : fmt::format("{:.3g} thousand USD", money / 1e3);
}

std::string AssumptionText(const TrainingAssumptions& assumptions) {
  return fmt::format(
      "{:.3g} tokens; assumed: {:.2g} failures per GPU and day "
      "(--failures), {:.3g} minutes until a restart trains again "
      "(--restart-minutes), checkpoints written at {:.3g} GB/s per node "
      "(--storage) at the best interval; energy is that of the GPU boards at "
      "their rated power\n",
      assumptions.tokens, assumptions.failures_per_gpu_day,
      assumptions.restart_minutes, assumptions.storage_gb_per_s_per_node);
}

}  // namespace

double TrainingAssumptions::PriceOf(const std::string& kind) const {
  for (const std::string& name : {kind, std::string()}) {
    if (const auto price = prices.find(name); price != prices.end()) {
      return price->second;
    }
  }
  return 0.0;
}

Goodput GoodputOf(double checkpoint_s, double restart_s, double failure_s) {
  const double ratio = checkpoint_s / (2.0 * failure_s);
  // Eq. 37; where a checkpoint takes longer than two failures, their time.
  Goodput goodput;
  goodput.interval_s =
      ratio < 1.0 ? std::sqrt(2.0 * checkpoint_s * failure_s) *
                            (1.0 + std::sqrt(ratio) / 3.0 + ratio / 9.0) -
                        checkpoint_s
                  : failure_s;
  // Eq. 20: the expected time of an interval, with its checkpoint and failures.
  const double segment_s =
      failure_s * std::exp(restart_s / failure_s) *
      std::expm1((goodput.interval_s + checkpoint_s) / failure_s);
  goodput.share = goodput.interval_s / segment_s;
  return goodput;
}

void Complete(const TrainingAssumptions& assumptions,
              std::vector<Offer>& offers) {
  constexpr double kSecondsPerMinute = 60.0;
  for (Offer& offer : offers) {
    if (!offer.best) {
      continue;
    }
    const int gpus = offer.size.gpus();
    const double checkpoint_s =
        offer.checkpoint_bytes / (assumptions.storage_gb_per_s_per_node *
                                  common::kGiga * offer.size.nodes);
    const double failures_per_s =
        assumptions.failures_per_gpu_day * gpus / kSecondsPerDay;
    if (failures_per_s > 0.0) {
      offer.goodput = GoodputOf(checkpoint_s,
                                assumptions.restart_minutes * kSecondsPerMinute,
                                1.0 / failures_per_s);
    }
    constexpr double kLeastShare = 0.01;
    if (!(offer.goodput.share >= kLeastShare)) {
      offer.problem = fmt::format(
          "a failure every {:.3g} s, a checkpoint of {:.3g} s and {:g} minutes "
          "to restart: nothing is trained",
          1.0 / failures_per_s, checkpoint_s, assumptions.restart_minutes);
      offer.best.reset();
      continue;
    }
    const double tokens_per_s = gpus * offer.best->tokens_per_s_per_gpu;
    offer.days = assumptions.tokens / tokens_per_s / kSecondsPerDay /
                 offer.goodput.share;
    const double hours = offer.days * kHoursPerDay * gpus;
    offer.money = hours * assumptions.PriceOf(offer.kind);
    offer.energy_mwh = hours * offer.power_w / kMega;
  }
  MarkFront(offers);
}

plots::Table OfferTable(const TrainingAssumptions& assumptions,
                        const std::vector<Offer>& offers) {
  using plots::Rounded;
  plots::Table table;
  constexpr int kDigits = 3;
  for (const Offer& offer : offers) {
    const auto known = [&offer](double value, double scale = 1.0) {
      return offer.best && value > 0.0 ? Rounded(value, kDigits, scale)
                                       : plots::Cell(trials::kUnknown);
    };
    const auto bands = offer.best ? fmt::format("{:.3g} to {:.3g}",
                                                offer.days * offer.band.first,
                                                offer.days * offer.band.second)
                                  : "";
    table.Add(
        {{"gpu", "GPU", offer.kind},
         {"gpus", "number", offer.size.gpus()},
         {"days", "days", known(offer.days)},
         {"days_in_nine_of_ten_cases", "in nine of ten cases",
          plots::Figures(bands)},
         {"guess", "", offer.is_guess ? 1 : 0},
         {"goodput", "goodput, %", known(offer.goodput.share, 100.0)},
         {"checkpoint_interval_s", "", known(offer.goodput.interval_s)},
         {"money_usd", "thousand USD", known(offer.money, 1e-3)},
         {"energy_mwh", "MWh", known(offer.energy_mwh)},
         {"co2_tonnes", "t CO2", known(TonnesOf(assumptions, offer))},
         {"mfu", "MFU, %", known(offer.best ? offer.best->mfu : 0.0, 100.0)},
         {"half_network", "half network, times", known(offer.half_network)},
         {"best_choice", "best",
          offer.is_best_choice ? (offer.is_guess ? "* guess" : "*")
                               : (offer.is_guess ? "  guess" : "")},
         {"framework", "framework", offer.framework},
         {"layout", "layout",
          offer.best ? LayoutName(offer.best->config) : offer.problem}});
  }
  table.HideEmpty();
  return table;
}

common::Json OfferJson(const plots::Table& table) {
  common::Json json = common::Json::array();
  for (const std::vector<plots::Cell>& row : table.rows) {
    common::Json one;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string& text = row[i].exact.front();
      one[table.columns[i].data] =
          row[i].is_name || table.columns[i].data == "days_in_nine_of_ten_cases"
              ? common::Json(text)
          : text.empty() ? common::Json()
                         : common::Json(common::ParseDouble(text));
    }
    json.push_back(std::move(one));
  }
  return json;
}

namespace {

// As many columns as fit.
std::string TableText(plots::Table table, std::size_t columns) {
  constexpr std::size_t kLeast = 60;  // as plots::WrapLines
  const std::size_t width = columns < kLeast ? 120 : columns;
  std::string text = plots::ToText(table, width);
  for (const char* less :
       {"framework", "layout", "half_network", "goodput", "mfu"}) {
    if (text.find('\n') > width) {
      std::ranges::find(table.columns, less, &plots::Field::data)
          ->title.clear();
      text = plots::ToText(table, width);
    }
  }
  return text;
}

}  // namespace

std::string OfferText(const TrainingAssumptions& assumptions,
                      const std::vector<Offer>& offers, std::size_t columns) {
  const Offer* fastest = nullptr;
  const Offer* cheapest = nullptr;
  std::string verdict;
  for (const Offer& one : offers) {
    if (!one.best) {
      verdict +=
          fmt::format("{} {}: {}\n", one.size.gpus(), one.kind, one.problem);
      continue;
    }
    fastest = fastest == nullptr || one.days < fastest->days ? &one : fastest;
    if (one.money > 0.0 &&
        (cheapest == nullptr || one.money < cheapest->money)) {
      cheapest = &one;
    }
  }
  if (fastest != nullptr) {
    verdict += fmt::format("fastest: {}: {:.3g} days\n", Name(*fastest),
                           fastest->days);
    if (cheapest != nullptr) {
      verdict +=
          fmt::format("cheapest{}: {}: {}, {:.3g} days\n",
                      IsPriced(offers) ? "" : " of those with a price",
                      Name(*cheapest), Money(cheapest->money), cheapest->days);
    }
    verdict +=
        "best *: no other is both faster and cheaper (in GPU days where a "
        "price is missing); --csv and --html have all columns\n";
  }
  return plots::WrapLines(AssumptionText(assumptions), columns) + "\n" +
         TableText(OfferTable(assumptions, offers), columns) + "\n" +
         plots::WrapLines(verdict, columns);
}

namespace {

// Days against money, or GPU days, on logarithmic axes: one mark and color for
// each kind of GPU, the front as a line.
class FrontPicture {
 public:
  explicit FrontPicture(const std::vector<Offer>& offers)
      : priced_(IsPriced(offers)) {
    std::ranges::copy_if(offers, std::back_inserter(offers_),
                         [](const Offer& one) { return one.best.has_value(); });
    std::ranges::sort(offers_, {}, &Offer::days);
    for (const Offer& one : offers_) {
      kinds_.insert(one.kind);
      Widen(one.days, days_);
      Widen(CostOf(one, priced_), costs_);
    }
  }

  [[nodiscard]] std::string Svg() const {
    const std::string label = priced_ ? "thousand USD" : "GPU days";
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{} against "
        "days\">\n",
        kRight + kLegend, kBase + 50, label);
    svg += Ticks(days_, true) + Ticks(costs_, false) +
           Text((kLeft + kRight) / 2, kBase + 42, "middle", "days") +
           Text(kLeft, 18, "start", label) + "<polyline points=\"";
    for (const Offer& one : offers_) {
      svg += one.is_best_choice ? fmt::format("{:.1f},{:.1f} ", X(one), Y(one))
                                : "";
    }
    svg += "\"/>\n";
    int i = 0;
    for (const std::string& kind : kinds_) {
      svg += Text(kRight + 20, 40 + 20.0 * i, "start",
                  Mark(i) + " " + plots::EscapeHtml(kind), Color(i));
      for (const Offer& one : offers_) {
        if (one.kind == kind) {
          svg += Text(X(one), Y(one) + 5, "middle",
                      fmt::format("{}<title>{}: {:.3g} days, {:.3g} {}</title>",
                                  Mark(i), plots::EscapeHtml(Name(one)),
                                  one.days, CostOf(one, priced_), label),
                      Color(i)) +
                 Text(X(one) + 8, Y(one) - 6, "start",
                      std::to_string(one.size.gpus()));
        }
      }
      ++i;
    }
    return svg + "</svg>\n";
  }

 private:
  static constexpr double kLeft = 80, kRight = 610, kTop = 30, kBase = 370,
                          kLegend = 150;
  using Range = std::pair<double, double>;

  static std::string Text(double x, double y, std::string_view anchor,
                          std::string_view text, std::string_view color = "") {
    return fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x,
        y, anchor, color, text);
  }
  static std::string Mark(int kind) {
    constexpr std::array kMarks = {"\u25cf", "\u25b2", "\u25a0", "\u25c6"};
    return kMarks.at(kind % kMarks.size());
  }
  static std::string Color(int kind) {
    constexpr std::array kColors = {"#0072b2", "#d55e00", "#007a5a", "#a04d7d",
                                    "#6b5d00", "#555555", "#00649a", "#000000"};
    return fmt::format(" fill=\"{}\"", kColors.at(kind % kColors.size()));
  }
  static void Widen(double value, Range& range) {
    constexpr double kMargin = 1.15;
    range.first = std::min(range.first, value / kMargin);
    range.second = std::max(range.second, value * kMargin);
  }
  // Where a value is between two places.
  static double Place(double value, const Range& range, double from,
                      double to) {
    return from + (to - from) * std::log(value / range.first) /
                      std::log(range.second / range.first);
  }
  [[nodiscard]] double X(const Offer& one) const {
    return Place(one.days, days_, kLeft, kRight);
  }
  [[nodiscard]] double Y(const Offer& one) const {
    return Place(CostOf(one, priced_), costs_, kBase, kTop);
  }
  // At round multiples of powers of ten.
  static std::string Ticks(const Range& range, bool is_x) {
    std::string svg;
    const auto last = static_cast<int>(std::floor(std::log10(range.second)));
    for (auto digits = static_cast<int>(std::floor(std::log10(range.first)));
         digits <= last; ++digits) {
      for (const double times : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0}) {
        const double value = times * std::pow(10.0, digits);
        if (value < range.first || value > range.second) {
          continue;
        }
        const double at = is_x ? Place(value, range, kLeft, kRight)
                               : Place(value, range, kBase, kTop);
        const std::string text = fmt::format("{:g}", value);
        svg += fmt::format("<path d=\"M{:.1f} {:.1f}{}\"/>", is_x ? at : kLeft,
                           is_x ? kTop : at,
                           is_x ? fmt::format("V{}", kBase)
                                : fmt::format("H{}", kRight)) +
               (is_x ? Text(at, kBase + 18, "middle", text)
                     : Text(kLeft - 6, at + 5, "end", text));
      }
    }
    return svg;
  }

  std::vector<Offer> offers_;  // after their days
  std::set<std::string> kinds_;
  bool priced_ = false;
  Range days_ = {1e300, 0.0}, costs_ = {1e300, 0.0};
};

}  // namespace

std::string OfferPage(const TrainingAssumptions& assumptions,
                      const std::vector<Offer>& offers,
                      const std::string& job) {
  const bool any = std::ranges::any_of(
      offers, [](const Offer& one) { return one.best.has_value(); });
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<title>What a training takes</title><style>{}main{{max-width:85em}}"
      "svg{{background:#fff;max-width:760px}}svg text{{font-size:13px}}"
      "svg path{{stroke:#ddd}}svg polyline{{fill:none;stroke:#000;"
      "stroke-dasharray:4 3}}</style></head><body>"
      "<main><h1>What a training takes</h1><p>{}</p>\n<section>{}</section>"
      "<section><div class=\"scroll\">{}</div></section><footer>{}</footer>"
      "</main></body></html>\n",
      plots::kPageStyle, plots::EscapeHtml(job),
      any ? FrontPicture(offers).Svg() : "",
      plots::ToHtml(OfferTable(assumptions, offers), "offers"),
      plots::EscapeHtml(AssumptionText(assumptions)));
}

}  // namespace jobs
