#include "jobs/plan/purchase.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "common/text.h"
#include "common/units.h"
#include "trials/objective.h"

namespace jobs {
namespace {

constexpr double kSecondsPerDay = 86400.0;
constexpr double kHoursPerDay = 24.0;
constexpr double kMega = 1e6;

double GpuDays(const Offer& offer) { return offer.days * offer.size.gpus(); }

double TonnesOf(const TrainingAssumptions& assumptions, const Offer& offer) {
  return offer.energy_mwh * assumptions.grams_co2_per_kwh / 1e3;
}

// Offers with a layout.
std::vector<Offer*> Possible(std::vector<Offer>& offers) {
  std::vector<Offer*> possible;
  for (Offer& offer : offers) {
    if (offer.best) {
      possible.push_back(&offer);
    }
  }
  return possible;
}

void MarkFront(std::span<Offer* const> offers) {
  const bool priced = std::ranges::all_of(
      offers, [](const Offer* offer) { return offer->money > 0.0; });
  std::vector<trials::TimeAndCost> points;
  for (const Offer* offer : offers) {
    points.push_back({offer->days, priced ? offer->money : GpuDays(*offer)});
  }
  for (const std::size_t i : trials::ParetoFront(points)) {
    offers[i]->is_best_choice = true;
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
  const std::vector<Offer*> possible = Possible(offers);
  for (Offer* offer : possible) {
    const int gpus = offer->size.gpus();
    const double checkpoint_s =
        offer->checkpoint_bytes / (assumptions.storage_gb_per_s_per_node *
                                   common::kGiga * offer->size.nodes);
    const double failures_per_s =
        assumptions.failures_per_gpu_day * gpus / kSecondsPerDay;
    if (failures_per_s > 0.0) {
      offer->goodput = GoodputOf(
          checkpoint_s, assumptions.restart_minutes * kSecondsPerMinute,
          1.0 / failures_per_s);
    }
    const double tokens_per_s = gpus * offer->best->tokens_per_s_per_gpu;
    offer->days = assumptions.tokens / tokens_per_s / kSecondsPerDay /
                  offer->goodput.share;
    const double hours = offer->days * kHoursPerDay * gpus;
    for (const std::string& name : {std::string(), offer->kind}) {
      if (const auto price = assumptions.prices.find(name);
          price != assumptions.prices.end()) {
        offer->money = hours * price->second;
      }
    }
    offer->energy_mwh = hours * offer->power_w / kMega;
  }
  MarkFront(possible);
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

std::string OfferText(const TrainingAssumptions& assumptions,
                      const std::vector<Offer>& offers, std::size_t columns) {
  std::vector<Offer> copy = offers;
  const std::vector<Offer*> possible = Possible(copy);
  std::string verdict;
  if (!possible.empty()) {
    const Offer& fastest =
        **std::ranges::min_element(possible, {}, &Offer::days);
    verdict =
        fmt::format("fastest: {}: {:.3g} days\n", Name(fastest), fastest.days);
    std::vector<Offer*> priced;
    std::ranges::copy_if(possible, std::back_inserter(priced),
                         [](const Offer* one) { return one->money > 0.0; });
    if (!priced.empty()) {
      const Offer& cheapest =
          **std::ranges::min_element(priced, {}, &Offer::money);
      verdict += fmt::format("cheapest: {}: {}, {:.3g} days\n", Name(cheapest),
                             Money(cheapest.money), cheapest.days);
    }
    verdict +=
        "best *: no other is both faster and cheaper (in GPU days where a "
        "price "
        "is missing)\n";
  }
  return plots::WrapLines(AssumptionText(assumptions), columns) + "\n" +
         plots::ToText(OfferTable(assumptions, offers)) + "\n" +
         plots::WrapLines(verdict, columns);
}

namespace {

// Days against money, or GPU days, on logarithmic axes: one mark and color for
// each kind of GPU, the front as a line.
class FrontPicture {
 public:
  explicit FrontPicture(const std::vector<Offer>& offers) {
    std::ranges::copy_if(offers, std::back_inserter(offers_),
                         [](const Offer& one) { return one.best.has_value(); });
    priced_ = std::ranges::all_of(
        offers_, [](const Offer& one) { return one.money > 0.0; });
    for (const Offer& one : offers_) {
      kinds_.insert(one.kind);
      Widen(one.days, days_);
      Widen(Cost(one), costs_);
    }
  }

  [[nodiscard]] std::string Svg() const {
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{} against "
        "days\">\n",
        kWidth, kHeight, YLabel());
    svg += Ticks(days_, true) + Ticks(costs_, false);
    svg += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">days</text>\n"
        "<text x=\"{}\" y=\"18\">{}</text>\n",
        (kLeft + kWidth) / 2, kHeight - 8, kLeft, YLabel());
    svg += Front();
    int legend = 0;
    for (const std::string& kind : kinds_) {
      const auto color = kColors.at(legend % kColors.size());
      svg += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\">{} {}</text>\n",
                         kWidth - kLegend, 40 + 20 * legend, color,
                         kMarks.at(legend % kMarks.size()),
                         plots::EscapeHtml(kind));
      for (const Offer& one : offers_) {
        if (one.kind == kind) {
          svg += fmt::format(
              "<text class=\"mark\" x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\" "
              "text-anchor=\"middle\">{}<title>{}: {:.3g} days, {:.3g} "
              "{}</title></text>\n<text x=\"{:.1f}\" y=\"{:.1f}\" "
              "class=\"small\">{}</text>\n",
              X(one.days), Y(Cost(one)) + 5, color,
              kMarks.at(legend % kMarks.size()), plots::EscapeHtml(Name(one)),
              one.days, Cost(one), YLabel(), X(one.days) + 8, Y(Cost(one)) - 6,
              one.size.gpus());
        }
      }
      ++legend;
    }
    return svg + "</svg>\n";
  }

 private:
  static constexpr double kWidth = 760, kHeight = 420, kLeft = 80, kTop = 30,
                          kBottom = 50, kLegend = 130;
  static constexpr std::array<std::string_view, 8> kColors = {
      "#0072b2", "#d55e00", "#007a5a", "#a04d7d",
      "#6b5d00", "#555555", "#00649a", "#000000"};
  static constexpr std::array<std::string_view, 4> kMarks = {
      "\u25cf", "\u25b2", "\u25a0", "\u25c6"};
  using Range = std::pair<double, double>;

  [[nodiscard]] double Cost(const Offer& one) const {
    return priced_ ? one.money / 1e3 : GpuDays(one);
  }
  [[nodiscard]] std::string YLabel() const {
    return priced_ ? "thousand USD" : "GPU days";
  }
  static void Widen(double value, Range& range) {
    constexpr double kMargin = 1.15;
    range.first = std::min(range.first, value / kMargin);
    range.second = std::max(range.second, value * kMargin);
  }
  static double Share(double value, const Range& range) {
    return std::log(value / range.first) / std::log(range.second / range.first);
  }
  [[nodiscard]] double X(double days) const {
    return kLeft + Share(days, days_) * (kWidth - kLeft - kLegend - 20);
  }
  [[nodiscard]] double Y(double cost) const {
    return kHeight - kBottom - Share(cost, costs_) * (kHeight - kBottom - kTop);
  }
  // At round multiples of powers of ten.
  [[nodiscard]] std::string Ticks(const Range& range, bool is_x) const {
    std::string svg;
    const int first = static_cast<int>(std::floor(std::log10(range.first)));
    const int last = static_cast<int>(std::floor(std::log10(range.second)));
    for (int exponent = first; exponent <= last; ++exponent) {
      for (const double times : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0}) {
        const double value = times * std::pow(10.0, exponent);
        if (value < range.first || value > range.second) {
          continue;
        }
        svg += is_x ? fmt::format(
                          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" "
                          "y2=\"{2}\"/><text x=\"{0:.1f}\" y=\"{3}\" "
                          "text-anchor=\"middle\">{4:g}</text>\n",
                          X(value), kTop, kHeight - kBottom,
                          kHeight - kBottom + 18, value)
                    : fmt::format(
                          "<line x1=\"{1}\" x2=\"{2}\" y1=\"{0:.1f}\" "
                          "y2=\"{0:.1f}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
                          "text-anchor=\"end\">{5:g}</text>\n",
                          Y(value), kLeft, kWidth - kLegend - 20, kLeft - 6,
                          Y(value) + 5, value);
      }
    }
    return svg;
  }
  [[nodiscard]] std::string Front() const {
    std::vector<const Offer*> front;
    for (const Offer& one : offers_) {
      if (one.is_best_choice) {
        front.push_back(&one);
      }
    }
    std::ranges::sort(front, {}, &Offer::days);
    std::string points;
    for (const Offer* one : front) {
      points += fmt::format("{:.1f},{:.1f} ", X(one->days), Y(Cost(*one)));
    }
    return fmt::format("<polyline points=\"{}\"/>\n", points);
  }

  std::vector<Offer> offers_;
  std::set<std::string> kinds_;
  bool priced_ = false;
  Range days_ = {1e300, 0.0}, costs_ = {1e300, 0.0};
};

}  // namespace

std::string OfferPage(const TrainingAssumptions& assumptions,
                      const std::vector<Offer>& offers,
                      const std::string& job) {
  constexpr std::string_view kStyle =
      ":root{color-scheme:light dark}body{font:15px sans-serif;max-width:85em;"
      "margin:2em auto;padding:0 1em}pre{white-space:pre-wrap}"
      "table{border-collapse:collapse}td,th{padding:.2em .6em;border-bottom:"
      "1px solid "
      "#999;text-align:right;white-space:nowrap}svg{background:#fff;max-width:"
      "760px}"
      "svg text{font:13px sans-serif}svg .mark{font-size:16px}"
      "svg .small{font-size:11px}svg line{stroke:#ddd}"
      "svg polyline{fill:none;stroke:#000;stroke-dasharray:4 3}";
  const bool any = std::ranges::any_of(
      offers, [](const Offer& one) { return one.best.has_value(); });
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<title>What a training takes</title><style>{}</style></head><body>\n"
      "<h1>What a training takes</h1>\n<pre>{}</pre>\n{}{}\n<pre>{}</pre>\n"
      "</body></html>\n",
      kStyle, plots::EscapeHtml(job), any ? FrontPicture(offers).Svg() : "",
      plots::ToHtml(OfferTable(assumptions, offers), "offers"),
      plots::EscapeHtml(AssumptionText(assumptions)));
}

}  // namespace jobs
