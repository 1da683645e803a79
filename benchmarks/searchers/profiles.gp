# Draws `base`.csv of compare.py: a block per quantity and half of the problems, a column per searcher.

set datafile separator ','
set grid
set xrange [1:20]
set yrange [0:1]
set style data lines
columns = words(halves)
colors = '#d55e00 #0072b2 #009e73 #cc79a7 #e69f00 #56b4e9 #777777'
color(i) = word(colors, i % words(colors) + 1)
dash(i) = i < words(colors) ? 1 : 2

do for [format in 'svg png'] {
  if (format eq 'svg') { set terminal svg size 500*columns+150,750 dynamic font 'DejaVu Sans,13' }
  else { set terminal pngcairo size 500*columns+150,750 font 'DejaVu Sans,10' }
  set output base.'.'.format
  set multiplot
  do for [block=0:2*columns-1] {
    set lmargin at screen (0.06 + (block % columns) * 0.84 / columns)
    set rmargin at screen (0.01 + (block % columns + 1) * 0.84 / columns)
    set tmargin at screen (block < columns ? 0.95 : 0.46)
    set bmargin at screen (block < columns ? 0.56 : 0.07)
    set title block < columns ? word(halves, block + 1).' problems' : ''
    set xlabel block < columns ? '' : 'trials'
    set ylabel block % columns ? '' : block < columns ? 'found / best, mean over problems' \
      : sprintf('share of searches at %g of the best', target)
    if (block == columns - 1) { set key at screen 0.99,0.95 right top Right samplen 3 } else { unset key }
    plot for [i=0:searchers-1] base.'.csv' index block using 1:(column(i+2)) \
      lc rgb color(i) dt dash(i) lw 2 title columnheader(i + 2)
  }
  unset multiplot
  unset output
}
