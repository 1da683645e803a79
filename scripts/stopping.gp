# Draws the rows `fits` of `folder`/stopping.csv as a reliability diagram. Points grow with the number of trials.

set datafile separator ','
set datafile missing NaN
set linetype 1 lc rgb '#d55e00'
set linetype 2 lc rgb '#0072b2'
set linetype 3 lc rgb '#009e73'
set linetype 4 lc rgb '#cc79a7'
set linetype 5 lc rgb '#e69f00'
set linetype 6 lc rgb '#56b4e9'
set linetype 7 lc rgb '#000000'
set grid
set size square
set xrange [0:1]
set yrange [0:1]
set key outside below center Left reverse maxcols 2
set xlabel 'stated probability that a chosen trial fits in memory'
set ylabel 'share of these trials that fit'
do for [format in 'svg png'] {
  if (format eq 'svg') { set terminal svg noenhanced size 600,720 dynamic font 'DejaVu Sans,13' }
  else { set terminal pngcairo noenhanced size 600,720 font 'DejaVu Sans,10' }
  set output folder.'/fits.'.format
  plot for [i=1:words(groups)] folder.'/stopping.csv' \
    using (strcol(1) eq word(groups, i) && strcol(2) eq 'fits' && $4 - $3 < 0.5 ? $7 : NaN):8:(0.3 + 0.35 * log10($5)) \
    with linespoints lt i dt i pt 4 + i ps variable lw 2 title word(groups, i), x lc rgb '#777777' dt 2 notitle
  unset output
}
